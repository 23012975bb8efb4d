// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// PrometheusBinary is the name of the Prometheus server, for Binary.
	PrometheusBinary = "prometheus"

	prometheusModule = "github.com/prometheus/prometheus"
)

// prometheusEdits leave out the service discovery of two dozen clouds, which would be most of the build. Static targets,
// files and HTTP stay; the server is the same otherwise.
var prometheusEdits = []edit{
	{prometheusModule, "plugins/plugins.go", `_ "` + prometheusModule + `/discovery/`, `// left out: "` + prometheusModule + `/discovery/`},
}

// PrometheusOptions configure what a Prometheus server scrapes.
type PrometheusOptions struct {
	// Dir is where it keeps its data, its configuration and its log. One that is started again there has what the first had.
	Dir string
	// Targets are what it scrapes, as host:port, under /metrics.
	Targets []string
	// Interval is how often; default 1s.
	Interval time.Duration
	// Port is where it serves, on the loopback interface; 0 picks a free one.
	Port int
}

// Prometheus is a running Prometheus server.
type Prometheus struct {
	*Process
	// URL is its address.
	URL string
	// Port is that of the URL.
	Port int
}

// StartPrometheus starts a Prometheus server, which it builds if need be, and waits until it answers queries. It belongs to
// no cluster.
func StartPrometheus(ctx context.Context, out io.Writer, o PrometheusOptions) (*Prometheus, error) {
	binary, err := Binary(ctx, out, PrometheusBinary)
	if err != nil {
		return nil, err
	}
	if o.Port == 0 {
		if o.Port, err = freePort(); err != nil {
			return nil, fmt.Errorf("start %s: %w", PrometheusBinary, err)
		}
	}
	config := filepath.Join(o.Dir, "prometheus.yaml")
	if err := os.WriteFile(config, []byte(o.config()), 0o600); err != nil {
		return nil, fmt.Errorf("start %s: %w", PrometheusBinary, err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", o.Port)
	p, err := StartProcess(ctx, ProcessSpec{
		Name: PrometheusBinary, Path: binary, Log: filepath.Join(o.Dir, "prometheus.log"),
		Args: []string{
			"--config.file=" + config, "--storage.tsdb.path=" + filepath.Join(o.Dir, "data"), "--storage.tsdb.no-lockfile",
			"--web.listen-address=" + address, "--log.level=warn",
		},
	})
	if err != nil {
		return nil, err
	}
	s := &Prometheus{Process: p, URL: "http://" + address, Port: o.Port}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	if err := waitHealthy(ctx, p, client, s.URL+"/-/ready"); err != nil {
		p.Kill()
		return nil, err
	}
	return s, nil
}

func (o *PrometheusOptions) config() string {
	interval := o.Interval
	if interval == 0 {
		interval = time.Second
	}
	quoted := make([]string, len(o.Targets))
	for i, t := range o.Targets {
		quoted[i] = fmt.Sprintf("%q", t)
	}
	return fmt.Sprintf(`global: {scrape_interval: %dms, scrape_timeout: %dms}
scrape_configs:
- job_name: test
  honor_labels: true
  static_configs: [{targets: [%s]}]
`, interval.Milliseconds(), interval.Milliseconds(), strings.Join(quoted, ", "))
}
