"""What all parties share besides the contracts: servers, channels, errors, settings, money, canonical JSON."""
