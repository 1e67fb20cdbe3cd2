// Package load is an HTTP/1.1 load generator that is meant never to be the bottleneck.
//
// Many connections live on few threads: one locked OS thread per core given, each with its own epoll
// set that it polls without sleeping. Bodies are thrown away inside the kernel (recv with MSG_TRUNC,
// tcp(7)), so a client core drains more than a server core can send. System calls are raw: the Go
// scheduler is not entered in steady state, and nothing is allocated there.
//
// What a run promises:
//
//   - The status and the length of every response are checked against what the request must yield.
//     An error is counted by its kind; none is retried in silence.
//   - In the closed loop (the default) every connection has one request in flight. In the open loop
//     requests are due at a fixed rate and latency counts from the moment a request was due, not from
//     the moment a connection was free to carry it.
//   - A closed-loop row must obey Little's law, or Result.Refused says why it may not be quoted.
//
// Limits: one host and port per run, GET only, responses with a Content-Length only, heads of at most
// 8 KiB, no pipelining, no TLS. Keys and connections are bounded by MaxKeys and MaxConns.
package load
