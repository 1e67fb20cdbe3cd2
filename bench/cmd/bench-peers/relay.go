package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// What the relay does with the connection between the measured worker and the bad one. It knows no more of it than that a frame is four bytes of length
// and as many of something.
const (
	pass     = "pass"     // nothing
	drip     = "drip"     // reads what the measured worker says one byte at a time, a thousand a second
	beats    = "beats"    // frames of length zero, as fast as they are taken
	replay   = "replay"   // what the bad worker has said, again and again, as fast as it is taken
	elements = "elements" // on every connection that lives, 64 KiB of messages without anything in them
	huge     = "huge"     // on every connection that lives, the beginning of a frame of 1 MiB
)

// kept is how many frames of the bad worker are replayed.
const kept = 64

// relay is one process: all of its connections do the same.
type relay struct {
	to   string
	mode atomic.Pointer[string]

	mu      sync.Mutex
	carried map[*net.TCPConn]bool // of those who dial the bad worker
}

// do begins a task. Who has flooded loses its connections: what the buffers still hold would go on flooding.
func (r *relay) do(task string) {
	before := *r.mode.Swap(&task)
	if task != pass || before == pass {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for conn := range r.carried {
		conn.SetLinger(0)
		conn.Close()
	}
}

// note keeps a connection among those that are carried, or takes it out.
func (r *relay) note(conn *net.TCPConn, carried bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(r.carried, conn); carried {
		r.carried[conn] = true
	}
}

func relayMain(to string) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	r := &relay{to: to, carried: map[*net.TCPConn]bool{}}
	mode := pass
	r.mode.Store(&mode)
	fmt.Println(ln.Addr())
	go func() {
		tasks := bufio.NewScanner(os.Stdin)
		for tasks.Scan() {
			r.do(tasks.Text())
		}
		os.Exit(0)
	}()
	for {
		conn, err := ln.Accept()
		if err != nil {
			return err
		}
		go r.carry(conn.(*net.TCPConn))
	}
}

// carry joins a connection of the measured worker, or of the third, to the bad one.
func (r *relay) carry(from *net.TCPConn) {
	r.note(from, true)
	defer r.note(from, false)
	defer from.Close()
	from.SetReadBuffer(4 << 10) // so that the measured worker soon notices a peer that does not read
	to, err := net.DialTimeout("tcp", r.to, time.Second)
	if err != nil {
		return
	}
	defer to.Close()
	var both sync.WaitGroup
	both.Go(func() {
		defer from.Close()
		defer to.Close()
		r.forth(from, to)
	})
	both.Go(func() {
		defer from.Close()
		defer to.Close()
		r.back(to, from)
	})
	both.Wait()
}

// forth carries what goes to the bad worker.
func (r *relay) forth(from io.Reader, to io.Writer) {
	buf := make([]byte, 64<<10)
	for {
		most := len(buf)
		if *r.mode.Load() == drip {
			most = 1
			time.Sleep(time.Millisecond)
		}
		n, err := from.Read(buf[:most])
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// back carries what comes from it, frame by frame, and says more where the task is to.
func (r *relay) back(from net.Conn, to io.Writer) {
	in := bufio.NewReader(from)
	var said [][]byte
	flood := time.NewTicker(time.Millisecond)
	defer flood.Stop()
	frames := make(chan []byte)
	go func() {
		defer close(frames)
		for {
			f, err := wholeFrame(in)
			if err != nil {
				return
			}
			frames <- f
		}
	}()
	defer func() {
		from.Close()
		for range frames { // until the reader has noticed
		}
	}()
	first := true
	for {
		select {
		case f, ok := <-frames:
			if !ok {
				return
			}
			if _, err := to.Write(f); err != nil {
				return
			}
			if !first && len(f) > 4 { // the hello is said once
				if said = append(said, f); len(said) > kept {
					said = said[1:]
				}
			}
			first = false
		case <-flood.C:
			if first {
				continue
			}
			for {
				more := flooding(*r.mode.Load(), said)
				if more == nil {
					break
				}
				if _, err := to.Write(more); err != nil {
					return
				}
				select { // what it really says goes out as well
				case f, ok := <-frames:
					if !ok {
						return
					}
					if _, err := to.Write(f); err != nil {
						return
					}
				default:
				}
			}
		}
	}
}

// flooding is what is said in a mode beside what the bad worker says; nil is nothing.
func flooding(mode string, said [][]byte) (b []byte) {
	switch mode {
	case beats:
		return make([]byte, 16<<10) // four bytes of zero are a frame
	case replay:
		for _, f := range said {
			b = append(b, f...)
		}
	case elements:
		const size = 64 << 10
		b = binary.BigEndian.AppendUint32(nil, size)
		for range size / 2 {
			b = append(b, 0x12, 0) // field 2, a message of no bytes
		}
	case huge:
		b = binary.BigEndian.AppendUint32(nil, 1<<20)
		b = append(b, make([]byte, 16<<10)...)
	}
	return b
}

// wholeFrame reads a frame with its length before it.
func wholeFrame(in io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > 1<<20 {
		return nil, fmt.Errorf("a frame of %d bytes", n)
	}
	f := make([]byte, 4+n)
	copy(f, head[:])
	_, err := io.ReadFull(in, f[4:])
	return f, err
}
