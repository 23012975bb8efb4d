// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/pprof"
	"time"

	"berth.dev/berth/test/perf/bench"
)

// envPeer makes the test binary a peer: it answers requests until its input ends.
const envPeer = "BERTH_CYCLE_PEER"

// envProfile names a folder in which every peer leaves a CPU profile of its turns.
const envProfile = "BERTH_CYCLE_PROFILES"

// job is what a process is started for.
type job struct {
	Peer     string   `json:"peer"`
	Scenario Scenario `json:"scenario"`
	Profile  string   `json:"profile,omitempty"`
}

// request requests a turn of a peer; of no pods, the quality of its placements.
type request struct {
	Pods    int     `json:"pods"`
	Seconds float64 `json:"seconds"`
}

type reply struct {
	Values bench.Values `json:"values"`
	Error  string       `json:"error,omitempty"`
}

// Serve is the peer's process. It returns when in ends.
func Serve(ctx context.Context, text string, in io.Reader, out io.Writer) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := json.NewEncoder(out)
	r, err := newRunner(ctx, j.Peer, j.Scenario)
	if err != nil {
		return answers.Encode(reply{Error: err.Error()})
	}
	if err := answers.Encode(reply{}); err != nil { // it is ready
		return err
	}
	if j.Profile != "" {
		file, err := os.Create(j.Profile)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var q request
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			return err
		}
		a := reply{}
		if q.Pods == 0 {
			a.Values = r.quality()
		} else if a.Values, err = r.turn(q.Pods, time.Duration(q.Seconds*float64(time.Second))); err != nil {
			a.Error = err.Error()
		}
		if err := answers.Encode(a); err != nil {
			return err
		}
	}
	return lines.Err()
}

// Process is a peer that runs.
type Process struct {
	command *exec.Cmd
	in      io.WriteCloser
	replies *json.Decoder
}

// Start starts a peer as a process of its own and waits until its scheduler is ready.
func Start(ctx context.Context, peer string, s Scenario) (*Process, error) {
	program, name, err := programOf(ctx, peer)
	if err != nil {
		return nil, err
	}
	j := job{Peer: name, Scenario: s}
	if dir := os.Getenv(envProfile); dir != "" {
		j.Profile = fmt.Sprintf("%s/%s-%d.prof", dir, peer, s.Nodes)
	}
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	p := &Process{command: exec.CommandContext(ctx, program)}
	p.command.Env = append(os.Environ(), envPeer+"="+string(text))
	p.command.Stderr = os.Stderr
	if p.in, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.replies = json.NewDecoder(out)
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	_, err = p.answer()
	return p, err
}

// Turn has the peer place up to so many pods, and no more than fit into the time.
func (p *Process) Turn(pods int, most time.Duration) (bench.Values, error) {
	return p.ask(request{Pods: pods, Seconds: most.Seconds()})
}

// Quality returns how good the places are that the peer chose until now.
func (p *Process) Quality() (bench.Values, error) { return p.ask(request{}) }

func (p *Process) ask(q request) (bench.Values, error) {
	if err := json.NewEncoder(p.in).Encode(q); err != nil {
		return nil, err
	}
	return p.answer()
}

func (p *Process) answer() (bench.Values, error) {
	var a reply
	if err := p.replies.Decode(&a); err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	if a.Error != "" {
		return nil, fmt.Errorf("peer: %s", a.Error)
	}
	return a.Values, nil
}

// Peak is the most memory that the process ever had resident, in bytes.
func (p *Process) Peak() (float64, error) {
	proc, err := bench.ReadProcess(p.command.Process.Pid)
	return proc.PeakBytes, err
}

// Stop ends the process.
func (p *Process) Stop() error {
	_ = p.in.Close()
	return p.command.Wait()
}
