"""Compare copying tokens with plain decoding and with transformers' prompt lookup.

The claim: a draft copied from the longest match in passages, document, prompt and answer decodes
grounded answers faster than the plain loop and than transformers' lookup, which takes the first
match, and costs no more than 3 % where there is nothing to copy. See ``bench_rapid.py`` for how.
"""

from __future__ import annotations

from bench_rapid import main

if __name__ == "__main__":
    main("lookup", ("lookup", "hf_lookup"))
