package bed

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// askTimeout is how long a question to the admin port may take, also to one that is under attack; less if the caller's context ends before.
const askTimeout = 10 * time.Second

// Ask reads an answer in JSON from the server's admin port.
func (s *Server) Ask(ctx context.Context, path string, answer any) error {
	return s.ask(ctx, path, func(body io.Reader) error { return json.NewDecoder(body).Decode(answer) })
}

// Metrics are the server's series, each under its name with its labels as they are printed.
func (s *Server) Metrics(ctx context.Context) (map[string]float64, error) {
	m := map[string]float64{}
	return m, s.ask(ctx, "/metrics", func(body io.Reader) error {
		lines := bufio.NewScanner(body)
		for lines.Scan() {
			i := strings.LastIndexByte(lines.Text(), ' ')
			if v, err := strconv.ParseFloat(lines.Text()[i+1:], 64); err == nil && i > 0 {
				m[lines.Text()[:i]] = v
			}
		}
		return lines.Err()
	})
}

func (s *Server) ask(ctx context.Context, path string, read func(body io.Reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	resp, err := request(ctx, http.MethodGet, "http://"+s.Admin+path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s%s: %s", s.Name, path, resp.Status)
	}
	return read(resp.Body)
}

// Await asks for an object as a tenant until the server has served it once.
func (s *Server) Await(ctx context.Context, method, key string, t Tenant, patience time.Duration) error {
	for late := time.Now().Add(patience); ; {
		resp, err := request(ctx, method, s.Target+"/"+key, t.Header())
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("%s", resp.Status)
		}
		if time.Now().After(late) {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		if err := Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// request makes one on a connection of its own, with header lines "Name: value".
func request(ctx context.Context, method, url string, headers ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return nil, err
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	req.Close = true
	return http.DefaultTransport.RoundTrip(req)
}

// Sleep waits so long, less if ctx ends.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
