// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ProcessSpec is what to run.
type ProcessSpec struct {
	// Name is for messages and for the log file.
	Name string
	Path string
	Args []string
	// Env is added to this process's environment.
	Env []string
	// Dir is the working directory; empty means this process's.
	Dir string
	// Log receives standard output and error, appended. Empty means they are discarded.
	Log string

	detach bool
}

// Process is a running program. On Linux it dies with this process, however this one ends.
type Process struct {
	Name string

	process *os.Process
	// state is how the process ended, once done is closed; nil for a child of another process.
	state *os.ProcessState
	log   string
	id    string
	// group sends signals to all processes of its group: a supervisor and its program.
	group bool
	// before is the processor time that a borrowed process had used for others.
	before time.Duration
	done   chan struct{}
}

// StartProcess starts a program in its own process group.
func StartProcess(ctx context.Context, spec ProcessSpec) (*Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Dir = spec.Dir
	cmd.Env = append(os.Environ(), spec.Env...)
	cmd.SysProcAttr = sysProcAttr(spec.detach)
	if spec.Log != "" {
		f, err := os.OpenFile(spec.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", spec.Name, err)
		}
		defer f.Close() // the child has its own descriptor
		cmd.Stdout, cmd.Stderr = f, f
	}
	if err := startOnImmortalThread(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	p := &Process{Name: spec.Name, process: cmd.Process, log: spec.Log, group: spec.detach, done: make(chan struct{})}
	// Read before Wait can reap it; empty if it is gone already.
	p.id, _ = processID(cmd.Process.Pid)
	go func() {
		_ = cmd.Wait() // the outcome is in cmd.ProcessState
		p.state = cmd.ProcessState
		addTimes(filepath.Base(spec.Path), p.state.UserTime()+p.state.SystemTime())
		close(p.done)
	}()
	return p, nil
}

// PID returns the process id.
func (p *Process) PID() int { return p.process.Pid }

// Kill sends SIGKILL. It is no error if the process is gone.
func (p *Process) Kill() { p.signal(syscall.SIGKILL) }

// Terminate sends SIGTERM.
func (p *Process) Terminate() { p.signal(syscall.SIGTERM) }

// Pause sends SIGSTOP: the process freezes and keeps its connections.
func (p *Process) Pause() { p.signal(syscall.SIGSTOP) }

// Resume sends SIGCONT.
func (p *Process) Resume() { p.signal(syscall.SIGCONT) }

// signal goes through os.Process, which has the information whether the process was reaped, so that it never reaches
// another one with the same pid.
func (p *Process) signal(s syscall.Signal) {
	if p.group && !p.ended() {
		_ = syscall.Kill(-p.PID(), s)
		return
	}
	_ = p.process.Signal(s)
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the end of the process and returns its exit code.
func (p *Process) Wait(ctx context.Context) (int, error) {
	select {
	case <-p.done:
		return p.ExitCode(), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("wait for the end of %s: %w", p.Name, ctx.Err())
	}
}

// ExitCode returns the exit code, or -1 while the process runs and when a signal ended it.
func (p *Process) ExitCode() int {
	if p.ended() {
		return p.state.ExitCode()
	}
	return -1
}

func (p *Process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// LogPath returns the log file, empty if the output is discarded.
func (p *Process) LogPath() string { return p.log }

// LogTail returns the last n lines of the log.
func (p *Process) LogTail(n int) string { return fileTail(p.log, n) }

func fileTail(path string, n int) string {
	const most = 64 << 10
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.Size() > most {
		if _, err := f.Seek(-most, io.SeekEnd); err != nil {
			return ""
		}
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// exitedError is the error of a process that ended when it should not have, with the end of its log.
func (p *Process) exitedError() error {
	return fmt.Errorf("%s ended (%s); its last lines:\n%s", p.Name, p.state, p.LogTail(20))
}

var spawner = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread() // never unlocked
		for f := range work {
			f()
		}
	}()
	return work
})

// startOnImmortalThread starts the command from a thread that lives as long as this process does: the kernel ties the
// parent-death signal to the parent thread, and the Go runtime ends idle or locked threads when it likes.
func startOnImmortalThread(cmd *exec.Cmd) error {
	result := make(chan error)
	spawner() <- func() { result <- cmd.Start() }
	return <-result
}
