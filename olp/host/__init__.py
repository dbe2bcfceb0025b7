"""The machine around the server: network, certificates, service unit, backup."""
