package main

import (
	"fmt"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"github.com/talon-worker/talon/origin"
	"github.com/talon-worker/talon/peerwire"
	"github.com/talon-worker/talon/uring"
)

// check tells all that would keep a worker with this configuration from
// serving, found among it, as far as it shows without binding a port.
func check(cmd *cobra.Command, conf *effective, found problems) error {
	limit, err := noFileLimit()
	if err != nil {
		found = append(found, cannot("read the limit of open files: %w", err))
	} else {
		for _, w := range conf.warnings(limit) {
			fmt.Fprintf(cmd.ErrOrStderr(), "talon: warning: %s\n", w)
		}
	}
	if found = append(found, conf.world()...); len(found) > 0 {
		return found
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "the configuration is good: %s can be served on %s\n", conf.originPath(), conf.listen)
	return err
}

// world checks what the configuration needs of the machine.
func (e *effective) world() (found problems) {
	if e.checkOrigin() == nil {
		dir, err := origin.OpenDir(e.origin)
		if err == nil {
			err = dir.Close()
		}
		if err != nil {
			found = append(found, cannot("%w", err))
		}
	}
	for _, name := range []string{"listen", "admin"} {
		s, _ := e.lookup(name)
		addr := s.value.String()
		if addr == "" {
			continue // off, or refused already
		}
		if _, err := net.ResolveTCPAddr("tcp", addr); err != nil {
			found = append(found, cannot("%s: %w (give host:port, for example 127.0.0.1:8080)", e.from[name].subject(name), err))
		}
	}
	if e.policy != "" {
		set, wrong := readPolicy(e.policy)
		if len(wrong) == 0 {
			wrong = append(onlyPeer(e.policy, set), e.fits(e.policy, set, e.leftOpen())...)
		}
		found = append(found, wrong...)
	}
	if path, ok := strings.CutPrefix(e.coordinator, "file:"); ok {
		set, wrong := readPolicy(path)
		if len(wrong) == 0 {
			wrong = e.fits(path, set, e.leftOpen())
		}
		found = append(found, wrong...)
	}
	if e.peerTLSCert != "" {
		if _, err := peerwire.LoadTLS(e.peerTLSCert, e.peerTLSKey, e.peerTLSCA); err != nil {
			found = append(found, cannot("%w", err))
		}
	}
	if err := uring.Probe(); err != nil {
		found = append(found, err)
	}
	return found
}
