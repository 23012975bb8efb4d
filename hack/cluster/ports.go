// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

type ports struct {
	Etcd, EtcdPeer, APIServer, ControllerManager, KWOK int
}

func pickPorts() (ports, error) {
	var p ports
	for _, dst := range []*int{&p.Etcd, &p.EtcdPeer, &p.APIServer, &p.ControllerManager, &p.KWOK} {
		port, err := freePort()
		if err != nil {
			return p, err
		}
		*dst = port
	}
	return p, nil
}

// freePort returns a loopback port that no one listens on and that no call of this function returns again, here or in
// another process of this user, as long as this process lives: whoever gets it may take its time to listen, and stop and
// listen again.
func freePort() (int, error) {
	pool, err := userPorts()
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	return pool.take()
}

// FreeAddress returns a loopback address with a port that is handed out to no other caller as long as this process lives.
func FreeAddress() (string, error) {
	port, err := freePort()
	if err != nil {
		return "", err
	}
	return loopback(port), nil
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// userPorts lie below the usual range of ephemeral ports, so that no outgoing connection takes the port of a program that
// is down for a while.
var userPorts = sync.OnceValues(func() (*portPool, error) {
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	return newPortPool(filepath.Join(cache, "locks", "ports"), 18000, 29999)
})

// portPool hands out ports. The byte of a port in a file that is shared by processes is locked by the one that has it. The
// kernel drops such locks when their process ends. Within a process they exclude no one, hence taken.
type portPool struct {
	first, last int

	mu    sync.Mutex
	file  *os.File
	taken map[int]bool
}

func newPortPool(path string, first, last int) (*portPool, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	// It is open once in a process: to close it anywhere would drop all of the process's locks.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return &portPool{first: first, last: last, file: f, taken: map[int]bool{}}, nil
}

func (p *portPool) take() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.last - p.first + 1
	start := rand.IntN(n)
	for i := range n {
		port := p.first + (start+i)%n
		if p.taken[port] {
			continue
		}
		ours, err := p.claim(port)
		if err != nil {
			return 0, fmt.Errorf("claim port %d in %s: %w", port, p.file.Name(), err)
		}
		if !ours {
			continue
		}
		p.taken[port] = true // for good, even if a stranger listens there just now
		if l, err := net.Listen("tcp", loopback(port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("find a free port between %d and %d: none is left", p.first, p.last)
}

// claim reports whether this process has a port now; another one may have it.
func (p *portPool) claim(port int) (bool, error) {
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart, Start: int64(port), Len: 1}
	err := syscall.FcntlFlock(p.file.Fd(), syscall.F_SETLK, &lock)
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		return false, nil
	}
	return err == nil, err
}
