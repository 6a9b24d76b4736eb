"""What stands around every call of a server, one concern a module; `around` puts them together."""
