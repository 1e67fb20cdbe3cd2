package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/talon-worker/talon/bench/bed"
)

// etcdName is etcd's in the network.
const etcdName = "etcd"

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

// ready waits until it answers.
func (e *etcd) ready(ctx context.Context) error {
	for late := time.Now().Add(30 * time.Second); ; {
		err := e.note(ctx, new(revision))
		if err == nil {
			return nil
		}
		select {
		case <-e.proc.Done():
			return fmt.Errorf("etcd has ended: %v: %s", e.proc.Wait(), e.proc.Log())
		default:
		}
		if ctx.Err() != nil || time.Now().After(late) {
			return err
		}
		if err := bed.Sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

func (e *etcd) kill() {
	if e.proc != nil {
		syscall.Kill(-e.proc.Pid, syscall.SIGKILL)
		<-e.proc.Done()
	}
}

// revision is of etcd's answer to a write.
type revision struct{ Header struct{ Revision string } }

// note makes a revision that means nothing.
func (e *etcd) note(ctx context.Context, r *revision) error {
	return e.ask(ctx, "put", map[string]any{"key": []byte("bench"), "value": []byte(time.Now().String())}, r)
}

// compact makes a revision and forgets all before it.
func (e *etcd) compact(ctx context.Context) error {
	var r revision
	if err := e.note(ctx, &r); err != nil {
		return err
	}
	return e.ask(ctx, "compaction", map[string]any{"revision": r.Header.Revision, "physical": true}, &struct{}{})
}

// ask uses etcd's JSON gateway: no client library is linked for two calls.
func (e *etcd) ask(ctx context.Context, what string, question, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+e.client+"/v3/kv/"+what, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Close = true
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("etcd, %s: %s: %s", what, resp.Status, text)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, answer)
}
