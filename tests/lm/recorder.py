"""A progress that remembers what it was told."""

from dataclasses import dataclass, field


@dataclass
class Recorder:
    """Keeps notices and finished tasks; ``interrupt_at`` plays the user who presses Ctrl-C."""

    notices: list[str] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)
    done_bytes: dict[str, int] = field(default_factory=dict)
    interrupt_at: str = "\0"
    num_running: int = 0

    def notice(self, text: str) -> None:
        self.notices.append(text)

    def start(self, task: str, total_bytes: int | None) -> None:
        self.num_running += 1
        self.tasks.append(task)
        if self.interrupt_at in task:
            self.num_running -= 1
            raise KeyboardInterrupt

    def advance(self, num_bytes: int) -> None:
        task = self.tasks[-1]
        self.done_bytes[task] = self.done_bytes.get(task, 0) + num_bytes

    def done(self) -> None:
        self.num_running -= 1
