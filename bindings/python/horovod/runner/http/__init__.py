"""Where processes of a job meet, for code that starts them itself."""
