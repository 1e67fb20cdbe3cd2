package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/talon-worker/talon/bench/bed"
)

// etcd is a coordinator of one member, whose data outlives it.
type etcd struct {
	path, dir    string
	client, peer string // host:port
	proc         *bed.Proc
}

func newEtcd(work string) (e *etcd, err error) {
	e = &etcd{dir: filepath.Join(work, "etcd")}
	if e.path, err = exec.LookPath("etcd"); err != nil {
		return nil, fmt.Errorf("%w: install it (Debian: etcd-server), or leave --etcd out", err)
	}
	if e.client, err = bed.FreePort(); err != nil {
		return nil, err
	}
	e.peer, err = bed.FreePort()
	return e, err
}

func (e *etcd) up() (err error) {
	e.proc, err = bed.Start(bed.Spec{CPU: bed.AnyCPU, Argv: []string{e.path, "--name", "one", "--data-dir", e.dir, "--log-level", "error",
		"--listen-client-urls", "http://" + e.client, "--advertise-client-urls", "http://" + e.client,
		"--listen-peer-urls", "http://" + e.peer, "--initial-advertise-peer-urls", "http://" + e.peer, "--initial-cluster", "one=http://" + e.peer}})
	return err
}

func (e *etcd) kill() {
	if e.proc != nil {
		syscall.Kill(-e.proc.Pid, syscall.SIGKILL)
		<-e.proc.Done()
	}
}
