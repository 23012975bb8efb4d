// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
)

// ProgramOptions configures StartScheduler and StartController. Only Binary is required.
type ProgramOptions struct {
	// Binary is the program: what BuildScheduler or BuildController returns, or Binary for StockScheduler.
	Binary string
	// ConfigFile is its configuration. A scheduler gets a copy, in which only clientConnection.kubeconfig and what
	// LeaderElection sets differ; a controller gets the kubeconfig and loopback addresses by flags. Empty means the defaults.
	ConfigFile string
	// Name is the replica's name: its log file, its data directory. Default: berth-scheduler or berth-controller.
	Name string
	// User and Groups are its identity. Default: BerthSchedulerUser or BerthControllerUser.
	User   string
	Groups []string
	// Kubeconfig is used instead of one for User, for instance one that goes through a proxy.
	Kubeconfig string
	// LeaderElection changes the leader election of a scheduler; nil leaves it as configured.
	LeaderElection *LeaderElection
	// Args are added to the command line. The last value of a flag wins.
	Args []string
	// Env is added to the environment.
	Env []string
	// NoWait returns at once; WaitReady waits later.
	NoWait bool
}

// program is one that is to be started.
type program struct {
	ProgramOptions

	// dir is its data directory, ports are free for its servers, once it is prepared.
	dir   string
	ports [2]int
	// url is where its secure port will be, token what to send there; one of ready answers OK once it is ready.
	url, token string
	ready      []string
}

// prepareProgram makes the program's directory, finds its ports, and makes a kubeconfig for its user unless it was given one.
func (c *Cluster) prepareProgram(p *program) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("start %s: %w", p.Name, err)
		}
	}()
	p.dir = filepath.Join(c.dir, p.Name)
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return err
	}
	for i := range p.ports {
		if p.ports[i], err = freePort(); err != nil {
			return err
		}
	}
	if p.Kubeconfig == "" {
		p.Kubeconfig, err = c.Kubeconfig(p.User, p.Groups...)
	}
	return err
}

// server is a running program with a secure port.
type server struct {
	*Process
	// URL is the address of its secure port.
	URL string

	client *http.Client
	// token goes with each request of Get; empty if the client's certificate is enough.
	token string
	ready []string
}

// startProgram starts a prepared program and, unless its options disable it, waits until it is ready.
func (c *Cluster) startProgram(ctx context.Context, p *program) (*server, error) {
	client, err := c.insecureClient()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Name, err)
	}
	spec := ProcessSpec{Name: p.Name, Path: p.Binary, Args: p.Args, Env: p.Env}
	if c.opts.Detach {
		spec = supervised(spec, restartsFile(c.dir, p.Name))
	}
	process, err := c.StartProcess(ctx, spec)
	if err != nil {
		return nil, err
	}
	s := &server{Process: process, URL: p.url, client: client, token: p.token, ready: p.ready}
	if p.NoWait {
		return s, nil
	}
	if err := s.WaitReady(ctx); err != nil {
		s.Kill()
		return nil, err
	}
	return s, nil
}

// WaitReady waits, for a bounded time, until the program reports that it is ready.
func (s *server) WaitReady(ctx context.Context) error {
	return waitHealthy(ctx, s.Process, s.client, s.ready...)
}

// Get reads a path of the secure port, such as /metrics, as a cluster administrator.
func (s *server) Get(ctx context.Context, path string) ([]byte, error) {
	status, body, err := get(ctx, s.client, s.URL+path, s.token)
	if err != nil {
		return nil, fmt.Errorf("get %s of %s: %w", s.URL+path, s.Name, err)
	}
	if status != http.StatusOK {
		err = fmt.Errorf("get %s of %s: %d %s: %s", path, s.Name, status, http.StatusText(status), body)
	}
	return body, err
}

// get reads an address with a token, or without one if it is empty.
func get(ctx context.Context, client *http.Client, url, token string) (status int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}
