"""The controller process: wires ports to adapters and runs one loop per job while it leads."""
