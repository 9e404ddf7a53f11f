// The libraries that carry the compiled headers hold nothing else.
