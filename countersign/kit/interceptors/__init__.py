"""Server interceptors, one module each."""
