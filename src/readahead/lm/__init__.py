"""Language models behind two protocols; the only package that imports transformers."""
