// The library that carries the compiled headers holds nothing else.
