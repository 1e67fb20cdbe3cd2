package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/talon-worker/talon/bench/bed"
)

// childArg makes this program one of its helpers: child relay ADDR, child sink, child flood KIND RATE ADDR.
const childArg = "child"

// child is a helper that runs on the clients' core. It is told what to do line by line, and says a line once it can.
type child struct {
	proc *bed.Proc
	say  *os.File
}

// startChild starts a helper and returns what it said first: the address it listens on.
func (r *ring) startChild(args ...string) (*child, string, error) {
	in, say, err := os.Pipe()
	if err != nil {
		return nil, "", err
	}
	defer in.Close()
	hear, out, err := os.Pipe()
	if err != nil {
		say.Close()
		return nil, "", err
	}
	defer hear.Close()
	// The relay and the sink are as raised as the workers, whose neighbours they are; attackers are not.
	raise := r.o.Hygiene && args[0] != "flood"
	p, err := bed.Start(bed.Spec{Argv: append([]string{r.self, childArg}, args...), CPU: r.o.ClientCPU, Raise: raise, Kill: true, In: in, Out: out})
	out.Close()
	if err != nil {
		say.Close()
		return nil, "", err
	}
	c := &child{proc: p, say: say}
	hear.SetReadDeadline(time.Now().Add(10 * time.Second))
	line, err := bufio.NewReader(hear).ReadString('\n')
	if err != nil {
		c.stop()
		return nil, "", fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, p.Log())
	}
	return c, strings.TrimSpace(line), nil
}

// tell gives the helper another task.
func (c *child) tell(task string) error {
	_, err := fmt.Fprintln(c.say, task)
	return err
}

// stop ends the helper; it ends by itself, too, when nobody is left to tell it something.
func (c *child) stop() {
	c.say.Close()
	c.proc.Stop()
}

func childMain(args []string) error {
	go func() { // the parent is gone
		if len(args) > 0 && args[0] != "relay" {
			io.Copy(io.Discard, os.Stdin)
			os.Exit(0)
		}
	}()
	switch {
	case len(args) == 2 && args[0] == "relay":
		return relayMain(args[1])
	case len(args) == 1 && args[0] == "sink":
		return sinkMain()
	case len(args) == 4 && args[0] == "flood":
		return floodMain(args[1], args[2], args[3])
	}
	return fmt.Errorf("child %q: want relay ADDR, sink, or flood KIND RATE ADDR", args)
}
