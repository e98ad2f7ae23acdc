"""The JSON shapes on the wire: camelCase, RFC 3339 in UTC, unknown keys refused. Shared by the API and the SDK's client."""
