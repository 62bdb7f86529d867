"""The measurement: protocol, backends and the worker process that runs a campaign."""
