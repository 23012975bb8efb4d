// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/rpc"
	"os"
	"sync"
	"syscall"
	"time"
)

// Pool lends control planes to the processes that connect to its socket, each to one process at a time. It starts them when they
// are needed, and restores the data of each when its borrower disconnects, however that happens.
type Pool struct {
	out       io.Writer
	listener  net.Listener
	admission *admission
	// started has the control planes that are not lent, and unstarted a place for each that may be started.
	started   chan *pooled
	unstarted chan struct{}
	// ctx ends with Stop.
	ctx    context.Context
	cancel context.CancelFunc
	loans  sync.WaitGroup
}

// pooled is a control plane with its data as it was when it had just started.
type pooled struct {
	*Cluster
	fresh baseline
}

// Handover describes a control plane to its borrower.
type Handover struct {
	Dir       string
	Ports     ports
	Processes []DetachedProcess
	// AuditFrom and Since are where the borrower's part of the audit log begins.
	AuditFrom int64
	Since     time.Time
}

// poolService has the methods of lent.
const poolService = "Plane"

// StartPool serves size control planes at a socket until Stop.
func StartPool(socket string, size int, out io.Writer) (*Pool, error) {
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("start pool: %w", err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("start pool: %w", err)
	}
	p := &Pool{
		out: out, listener: listener, admission: newAdmission(admissionWindow, readProcessorTimes),
		started: make(chan *pooled, size), unstarted: make(chan struct{}, size),
	}
	for range size {
		p.unstarted <- struct{}{}
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.loans.Go(p.serve)
	return p, nil
}

// Stop disconnects the borrowers, and ends all control planes. It is safe to call twice.
func (p *Pool) Stop() {
	p.cancel()
	p.listener.Close()
	p.loans.Wait()
	for {
		select {
		case plane := <-p.started:
			plane.Stop()
		default:
			return
		}
	}
}

func (p *Pool) serve() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return // Stop closed the listener
		}
		p.loans.Go(func() { p.lend(conn) })
	}
}

func (p *Pool) lend(conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(p.ctx, func() { conn.Close() })()
	if p.admission.enter(p.ctx) != nil {
		return
	}
	defer p.admission.leave()
	plane, err := p.take()
	defer func() { p.giveBack(plane) }()
	calls := rpc.NewServer()
	_ = calls.RegisterName(poolService, &lent{plane, err, p.ctx}) // it has methods
	calls.ServeConn(conn)
	if err != nil || p.ctx.Err() != nil {
		return
	}
	if err := plane.restore(p.ctx); err != nil && p.ctx.Err() == nil {
		fmt.Fprintf(p.out, "pool: a control plane is replaced: %v\n", err)
		plane.Stop()
		plane = nil
	}
}

// take returns a control plane that is started, or starts one.
func (p *Pool) take() (*pooled, error) {
	select {
	case plane := <-p.started:
		return plane, nil
	default:
	}
	select {
	case <-p.ctx.Done():
		return nil, p.ctx.Err()
	case plane := <-p.started:
		return plane, nil
	case <-p.unstarted:
		return p.start()
	}
}

// giveBack makes place for the next borrower; plane is nil if there is none any more.
func (p *Pool) giveBack(plane *pooled) {
	if plane == nil {
		p.unstarted <- struct{}{}
		return
	}
	p.started <- plane
}

func (p *Pool) start() (*pooled, error) {
	c, err := Start(p.ctx, Options{Out: p.out})
	if err != nil {
		return nil, err
	}
	fresh, err := c.readBaseline(p.ctx)
	if err != nil {
		c.Stop()
		return nil, err
	}
	return &pooled{c, fresh}, nil
}

// lent has what a borrower calls, until it disconnects.
type lent struct {
	plane *pooled
	// err is why there is none.
	err error
	ctx context.Context
}

// Handover is called first.
func (l *lent) Handover(_ string, reply *Handover) error {
	if l.err != nil {
		return l.err
	}
	log, err := os.Stat(l.plane.AuditLogPath())
	if err != nil {
		return err
	}
	// Times in the audit log have microseconds.
	since := time.Now().Truncate(time.Microsecond)
	*reply = Handover{Dir: l.plane.dir, Ports: l.plane.ports, Processes: l.plane.processes(), AuditFrom: log.Size(), Since: since}
	return nil
}

// Stop stops a component.
func (l *lent) Stop(component string, _ *string) error { return l.plane.StopComponent(component) }

// Start starts a component again.
func (l *lent) Start(component string, processes *[]DetachedProcess) error {
	err := l.plane.StartComponent(l.ctx, component)
	*processes = l.plane.processes()
	return err
}

// restore makes the data of a control plane that was given back what they were at first.
func (c *pooled) restore(ctx context.Context) error {
	for _, name := range startOrder {
		p := c.Component(name)
		p.signal(syscall.SIGCONT)
		if p.ended() {
			return p.exitedError()
		}
	}
	if err := c.fresh.restore(ctx, c.EtcdURL()); err != nil {
		return err
	}
	for _, name := range startOrder {
		if err := c.waitReady(ctx, name); err != nil {
			return err
		}
	}
	return nil
}
