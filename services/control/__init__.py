"""The tick: what it may know, how it decides, and the loop that carries decisions out. No I/O here."""
