"""Files on disk: reading whole files, writing safely, and replacing several files as one transaction."""
