package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gubernator-io/gubernator/v2"
	"github.com/gubernator-io/gubernator/v2/cluster"
	"github.com/sirupsen/logrus"
)

// algorithms by the name of the flag. The token bucket is a counter that is full again when its duration is over; the leaky one refills all the time.
var algorithms = map[string]gubernator.Algorithm{"token": gubernator.Algorithm_TOKEN_BUCKET, "leaky": gubernator.Algorithm_LEAKY_BUCKET}

// settings are what this program changes of the daemons of gubernator's cluster package.
type settings struct{ sync time.Duration }

// Apply takes the times back that the package sets for tests, so that gubernator's own defaults are in force, and sets the sync wait.
func (s settings) Apply(cfg *gubernator.DaemonConfig) {
	quiet := logrus.New()
	quiet.SetOutput(logrus.StandardLogger().Out)
	cfg.Logger = quiet
	cfg.Behaviors = gubernator.BehaviorConfig{GlobalSyncWait: s.sync}
}

// peers is a cluster that runs until the process ends: closing the daemons waits for ever, in gubernator 2.20.1, when hits are still on their way.
type peers struct{ daemons []*gubernator.Daemon }

func start(n int, sync time.Duration) (*peers, error) {
	var addrs []gubernator.PeerInfo
	for range n {
		grpc, err := freePort()
		if err != nil {
			return nil, err
		}
		http, err := freePort()
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, gubernator.PeerInfo{GRPCAddress: grpc, HTTPAddress: http})
	}
	if err := cluster.StartWith(addrs, settings{sync}); err != nil {
		return nil, err
	}
	return &peers{cluster.GetDaemons()}, nil
}

// freePort asks the kernel for a port. A daemon must know its own before it listens: the others find out by it who owns a key.
func freePort() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}

// ask spends so many hits of a key at one peer and says whether they were admitted.
func (p *peers) ask(ctx context.Context, peer int, key string, hits int64, o *options) (bool, error) {
	answer, err := p.daemons[peer].V1Server.GetRateLimits(ctx, &gubernator.GetRateLimitsReq{Requests: []*gubernator.RateLimitReq{{
		Name: "bench", UniqueKey: key, Hits: hits, Limit: o.limit, Burst: o.limit, Duration: o.duration.Milliseconds(),
		Algorithm: algorithms[o.algorithm], Behavior: gubernator.Behavior_GLOBAL}}})
	if err != nil {
		return false, err
	}
	r := answer.Responses[0]
	if r.Error != "" {
		return false, fmt.Errorf("peer %d: %s", peer, r.Error)
	}
	return r.Status == gubernator.Status_UNDER_LIMIT, nil
}

// warm lets every peer talk to every other one before anything is counted: with enough keys each of them owns some.
func (p *peers) warm(o *options) error {
	const keys = 64
	for key := range keys {
		for peer := range p.daemons {
			if _, err := p.ask(context.Background(), peer, "warm"+strconv.Itoa(key), 1, o); err != nil {
				return err
			}
		}
	}
	time.Sleep(4*o.sync + 200*time.Millisecond) // hits go out after one sync wait, and what they led to after another
	return nil
}

// messages is how many calls the peers have had from each other: batches of hits, and broadcasts of what is left.
func (p *peers) messages() (sum float64, err error) {
	for _, d := range p.daemons {
		n, err := peerCalls("http://" + d.PeerInfo.HTTPAddress + "/metrics")
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

func peerCalls(url string) (sum float64, err error) {
	tr := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: tr, Timeout: 5 * time.Second}).Get(url)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	found := false
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), "} ")
		if strings.HasPrefix(name, "gubernator_grpc_request_counts{") && strings.Contains(name, "/pb.gubernator.PeersV1/") {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, err
			}
			sum, found = sum+n, true
		}
	}
	if lines.Err() == nil && !found {
		return 0, fmt.Errorf("%s: no calls of peers in it", url)
	}
	return sum, lines.Err()
}
