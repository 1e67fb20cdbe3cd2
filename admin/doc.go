// Package admin is the operator's port: health, metrics, status, profiles.
//
//	/livez           200 while every ring answers, 503 naming the one that does not
//	/readyz          200 while the worker wants traffic; 503 first thing in a drain; ?verbose lists the checks
//	/metrics         Prometheus text exposition
//	/api/v1/status   what this worker is and what its rings have counted, as JSON
//	/api/v1/tenants  who is served, what each does and has done here, and its limits; ?id= for one
//	/api/v1/violators  who is over a soft rate or banned, of the limits that this worker meters
//	/api/v1/loglevel PUT debug, info, warn or error: until the next SIGHUP or restart
//	/debug/pprof/    Go profiles
//
// Names and labels of metrics live here and nowhere else: the other rooms
// increment fields of plain structs, and cmd/talon copies those into a [Ring].
// The package therefore imports no other room; it is handed facts and functions
// (a [Worker]) and asks each ring for its counters only when somebody reads.
//
// It is an ordinary net/http server on goroutines of its own and shares nothing
// with a ring's thread. The port has no authentication, so its default address
// is loopback. Bounds: [maxConns] connections, 16 KiB of header, and a deadline
// on every phase of a request.
package admin
