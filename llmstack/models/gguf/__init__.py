"""GGUF files (the format of llama.cpp) as Hugging Face model folders; imports the `gguf` package, never MindSpore."""
