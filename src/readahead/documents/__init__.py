"""Files in, clean text with structure and exact offsets out; knows nothing about retrieval."""
