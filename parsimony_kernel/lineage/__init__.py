"""Where every variable comes from: what a cell reads and writes, and the ledger of origins."""
