"""Ten patients, sealed: read one only when you have made your diagnosis. One file each: data, program, what is wrong with it."""
