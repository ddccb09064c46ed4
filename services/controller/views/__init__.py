"""What a leading controller knows of a job, as documents: one module for each kind of reading."""
