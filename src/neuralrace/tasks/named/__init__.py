"""One file per named task; the registry imports every module that lies here."""
