package qos

import "fmt"

// Metric is one independently limited resource. The zero value is invalid, so that a forgotten field is refused and never
// charged to the wrong limit.
type Metric uint8

// The six metrics. Requests are counted in whole requests, everything else in bytes.
const (
	ReadIOPS Metric = iota + 1
	ClientEgressBytes
	OriginReadBytes
	WriteIOPS
	ClientIngressBytes
	OriginWriteBytes
)

// Metrics lists every valid metric in order.
var Metrics = [...]Metric{ReadIOPS, ClientEgressBytes, OriginReadBytes, WriteIOPS, ClientIngressBytes, OriginWriteBytes}

var metricNames = [...]string{
	ReadIOPS:           "read_iops",
	ClientEgressBytes:  "client_egress_bytes",
	OriginReadBytes:    "origin_read_bytes",
	WriteIOPS:          "write_iops",
	ClientIngressBytes: "client_ingress_bytes",
	OriginWriteBytes:   "origin_write_bytes",
}

// Valid reports whether m is one of the six.
func (m Metric) Valid() bool { return m >= ReadIOPS && m <= OriginWriteBytes }

// Requests reports whether the unit of m is one request; otherwise it is one byte.
func (m Metric) Requests() bool { return m == ReadIOPS || m == WriteIOPS }

// String is the name that policies, metrics and headers use.
func (m Metric) String() string {
	if !m.Valid() {
		return fmt.Sprintf("metric(%d)", uint8(m))
	}
	return metricNames[m]
}

// ParseMetric is the inverse of String.
func ParseMetric(name string) (Metric, error) {
	for _, m := range Metrics {
		if metricNames[m] == name {
			return m, nil
		}
	}
	return 0, fmt.Errorf("unknown metric %q: want one of %v", name, Metrics)
}

// Limit names one limit of one tenant over all its generations. The ring of owners hashes the Limit, not the RateKey, so
// that every generation has the same owner and the same meter: a policy change cannot hand out a second bucket.
type Limit struct {
	Tenant string
	Metric Metric
}

func (l Limit) String() string { return l.Tenant + "/" + l.Metric.String() }

// Less orders limits by tenant, then metric: the order in which anything deterministic walks them.
func (l Limit) Less(o Limit) bool {
	if l.Tenant != o.Tenant {
		return l.Tenant < o.Tenant
	}
	return l.Metric < o.Metric
}

// RateKey is one generation of one limit.
type RateKey struct {
	Tenant     string
	Metric     Metric
	Generation uint64
}

// Limit drops the generation.
func (k RateKey) Limit() Limit { return Limit{Tenant: k.Tenant, Metric: k.Metric} }

func (k RateKey) String() string {
	return fmt.Sprintf("%s/%s@%d", k.Tenant, k.Metric, k.Generation)
}
