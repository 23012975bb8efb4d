// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"io"
	"net/rpc"
	"os"
	"path/filepath"
)

// PoolEnv names the socket of a Pool.
const PoolEnv = "BERTH_POOL"

// StartOrBorrow borrows a control plane from the pool that PoolEnv names, or starts one if it names none. Stop gives a borrowed
// one back.
func StartOrBorrow(ctx context.Context, out io.Writer) (*Cluster, error) {
	if socket := os.Getenv(PoolEnv); socket != "" {
		return borrow(ctx, socket)
	}
	return Start(ctx, Options{Out: out})
}

func borrow(ctx context.Context, socket string) (_ *Cluster, err error) {
	c := &Cluster{components: map[string]*Process{}}
	defer func() {
		if err != nil {
			c.Stop()
			err = fmt.Errorf("borrow a control plane: %w", err)
		}
	}()
	client, err := rpc.Dial("unix", socket)
	if err != nil {
		return nil, err
	}
	c.pool = &loan{Client: client}
	defer context.AfterFunc(ctx, c.pool.end)()
	var reply Handover
	if err := c.pool.call("Handover", "", &reply); err != nil {
		return nil, err
	}
	if err := c.makeDir(); err != nil {
		return nil, err
	}
	// Programs and their logs are in a directory of this process.
	if err := os.Symlink(filepath.Join(reply.Dir, "pki"), filepath.Join(c.dir, "pki")); err != nil {
		return nil, err
	}
	if c.pki, err = loadPKI(filepath.Join(c.dir, "pki")); err != nil {
		return nil, err
	}
	c.ports, c.since, c.auditFrom = reply.Ports, reply.Since, reply.AuditFrom
	c.pool.logs = filepath.Join(reply.Dir, "logs")
	c.auditLog = filepath.Join(c.pool.logs, "audit.log")
	if err := c.setBorrowed(reply.Processes); err != nil {
		return nil, err
	}
	if c.config, err = c.clientConfig("kubernetes-admin", "system:masters"); err != nil {
		return nil, err
	}
	return c, c.writeKubeconfig(c.KubeconfigPath(), "kubernetes-admin", "system:masters")
}

// setBorrowed takes over the components of which the process is another one than before.
func (c *Cluster) setBorrowed(processes []DetachedProcess) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range processes {
		if old := c.components[p.Name]; old != nil && old.PID() == p.PID {
			continue
		}
		process, err := os.FindProcess(p.PID)
		if err != nil {
			return err
		}
		c.components[p.Name] = &Process{
			Name: p.Name, process: process, id: p.ID, log: filepath.Join(c.pool.logs, p.Name+".log"),
			before: processTime(p.PID), done: make(chan struct{}),
		}
	}
	return nil
}

// addBorrowedTimes counts the processor time of the components since they were borrowed.
func (c *Cluster) addBorrowedTimes() {
	for _, p := range c.components {
		addBorrowed(p.Name, max(0, processTime(p.PID())-p.before))
	}
}

// startBorrowed has the pool start a component again: the processes of a control plane are the pool's.
func (c *Cluster) startBorrowed(name string) error {
	var processes []DetachedProcess
	if err := c.pool.call("Start", name, &processes); err != nil {
		return err
	}
	return c.setBorrowed(processes)
}

// loan is the connection to the pool. The control plane is given back when it is closed.
type loan struct {
	*rpc.Client
	// logs has the logs of the components.
	logs string
}

func (l *loan) end() { _ = l.Close() } // an error leaves nothing to do

func (l *loan) stop(p *Process) error {
	if p.ended() {
		return nil
	}
	if err := l.call("Stop", p.Name, new(string)); err != nil {
		return err
	}
	close(p.done)
	return nil
}

func (l *loan) call(method, argument string, reply any) error {
	if err := l.Call(poolService+"."+method, argument, reply); err != nil {
		return fmt.Errorf("call the pool: %w", err)
	}
	return nil
}
