package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// reservedFiles is what the process holds beside connections and objects:
// rings, listeners, logs, the admin port, /proc while it is scraped.
const reservedFiles = 128

// raiseNoFile raises the soft limit of open files to the hard one and returns
// it. It must come before the first ring: io_uring takes the limit that was in
// force when an accept was prepared.
func raiseNoFile() (uint64, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, err
	}
	limit.Cur = limit.Max
	return limit.Cur, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
}

// filesShort says, when the limit cannot hold all that the bounds allow, what
// to change; otherwise it is empty.
func filesShort(limit uint64, connections, openFiles, rings int) string {
	need := uint64(connections) + uint64(openFiles)*uint64(rings) + reservedFiles
	if need <= limit {
		return ""
	}
	return fmt.Sprintf("%d open files are allowed but the bounds add up to %d: raise the limit (ulimit -n, LimitNOFILE=) or lower --max-connections or --open-files",
		limit, need)
}

// noFileLimit is what raiseNoFile would raise the limit to.
func noFileLimit() (uint64, error) {
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	return limit.Max, err
}
