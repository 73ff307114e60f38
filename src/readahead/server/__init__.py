"""An OpenAI-compatible server over a knowledge base, and the page that shows the speculation."""
