"""Text in, ranked passages out; knows nothing about language models or file formats."""
