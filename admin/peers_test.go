package admin

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func peersWorker() Worker {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return Worker{
		Peers: func() Peers {
			return Peers{Worker: "w1", Epoch: 3, Coordinator: "file:p.yaml", Enlisted: true, Ring: 7, Members: []string{"w1", "w2"}, Acts: true, Settled: true,
				Peers: []Peer{{ID: "w2", Addr: "127.0.0.1:2", Connected: true, Epoch: 9, Ring: 7, Since: &since, BytesIn: 5}, {ID: "w3", Fault: "connection refused"}},
				Wire:  Wire{BytesIn: 11, BytesOut: 12, FramesIn: 13, FramesOut: 14, Merged: 15, Links: map[string]uint64{"accepted": 16, "bad_frame": 17}, Lost: map[string]uint64{"full": 18}}}
		},
		Keys: func() []Key {
			return []Key{{Tenant: "a", Metric: "read_iops", Excess: 5, Bound: 20}, {Tenant: "b", Metric: "read_iops", Excess: 15, Bound: 20}, {Tenant: "c", Excess: 1}}
		},
	}
}

func TestPeersPage(t *testing.T) {
	h := httptest.NewRecorder()
	routes(peersWorker()).ServeHTTP(h, httptest.NewRequest("GET", "/api/v1/peers", nil))
	var got Peers
	if err := json.Unmarshal(h.Body.Bytes(), &got); err != nil || h.Code != 200 || got.Ring != 7 || len(got.Peers) != 2 || got.Peers[1].Fault != "connection refused" || got.Peers[1].Since != nil {
		t.Errorf("%d, %v: %s", h.Code, err, h.Body)
	}
	h = httptest.NewRecorder()
	routes(peersWorker()).ServeHTTP(h, httptest.NewRequest("GET", "/api/v1/keys", nil))
	if !strings.Contains(h.Body.String(), `"bound": 20`) {
		t.Errorf("%s", h.Body)
	}
}

// A worker that is alone has no such pages.
func TestNoPeersNoPage(t *testing.T) {
	h := httptest.NewRecorder()
	routes(Worker{}).ServeHTTP(h, httptest.NewRequest("GET", "/api/v1/peers", nil))
	if h.Code != 404 {
		t.Errorf("status %d, want 404", h.Code)
	}
}

func TestPeerMetrics(t *testing.T) {
	var e exposition
	wk := peersWorker()
	peers := wk.Peers()
	(&Tenancy{Limiter: &Limiter{}, Peers: &peers, Keys: wk.Keys()}).writePeers(&e)
	page := e.String()
	for _, want := range []string{
		"talon_global_excess_of_bound 0.75\n", "talon_peers 2\n", "talon_peers_connected 1\n", "talon_coordinator_trouble 0\n", "talon_coordinator_up 1\n", "talon_coordinator_enlisted 1\n", "talon_global_settled 1\n",
		"talon_peer_bytes_total{direction=\"in\"} 11\n", "talon_peer_frames_total{direction=\"out\"} 14\n", "talon_peer_merged_total 15\n",
		"talon_peer_links_total{outcome=\"bad_frame\"} 17\n", "talon_peer_messages_lost_total{reason=\"full\"} 18\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
}
