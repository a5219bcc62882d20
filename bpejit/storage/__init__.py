"""Files on disk: reading whole files, writing without loss, replacing several as one."""
