// SPDX-License-Identifier: Apache-2.0

package faultgate

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const gate = "before a step"

func armed(t *testing.T, a Action) Dir {
	t.Helper()
	d := Dir(t.TempDir())
	t.Setenv(Env, string(d))
	require.NoError(t, d.Arm(gate, a))
	return d
}

func visits(t *testing.T, d Dir) (actions []Action) {
	t.Helper()
	list, err := d.Visits()
	require.NoError(t, err)
	for _, v := range list {
		assert.Equal(t, gate, v.Gate)
		assert.Positive(t, v.PID)
		actions = append(actions, v.Action)
	}
	return actions
}

func TestAGateWithoutADirectoryIsOpen(t *testing.T) {
	t.Setenv(Env, "")
	assert.NoError(t, At(gate))
	assert.NoError(t, Answer(gate, nil))
}

func TestAGateFailsOnce(t *testing.T) {
	d := armed(t, Fail)
	assert.NoError(t, errors.Join(d.Arm("another", Fail), d.Arm("another", Lose)), "it can be armed again before it is reached")
	assert.ErrorIs(t, At(gate), ErrFailed)
	assert.NoError(t, At(gate))
	assert.Equal(t, []Action{Fail, ""}, visits(t, d))
}

// A request that the API server refused has an answer, so that a gate after it is not reached.
func TestOnlyTheAnswerOfARequestThatWasCarriedOutIsLost(t *testing.T) {
	d := armed(t, Lose)
	refused := errors.New("refused")
	assert.Equal(t, refused, Answer(gate, refused))
	assert.Empty(t, visits(t, d))
	assert.ErrorIs(t, Answer(gate, nil), io.ErrUnexpectedEOF, "Berth must classify it as no answer")
	assert.NoError(t, Answer(gate, nil))
	assert.Equal(t, []Action{Lose, ""}, visits(t, d))
}

func TestAVisitThatIsCutOffIsAnError(t *testing.T) {
	for _, text := range []string{"before a step\t", "before a step\tkill\tx\n"} {
		d := Dir(t.TempDir())
		require.NoError(t, os.WriteFile(filepath.Join(string(d), ".visits"), []byte(text), 0o600))
		_, err := d.Visits()
		assert.ErrorContains(t, err, "before a step", text)
	}
}

// passes is the exit code of a program that has passed its gate.
const passes = 7

// TestProgram is the program of the test below.
func TestProgram(*testing.T) {
	if os.Getenv(Env) != "" {
		_ = At(gate)
		os.Exit(passes)
	}
}

func TestAProgramIsKilledOrStopped(t *testing.T) {
	for _, a := range []Action{Kill, Stop} {
		t.Run(string(a), func(t *testing.T) {
			d := armed(t, a)
			p := exec.Command(os.Args[0], "-test.run=^TestProgram$")
			require.NoError(t, p.Start())
			var status syscall.WaitStatus
			_, err := syscall.Wait4(p.Process.Pid, &status, syscall.WUNTRACED, nil)
			require.NoError(t, err)
			assert.Equal(t, []Action{a}, visits(t, d), "it is noted before it acts")
			if a == Kill {
				assert.Equal(t, syscall.SIGKILL, status.Signal())
				return
			}
			assert.True(t, status.Stopped())
			require.NoError(t, p.Process.Signal(syscall.SIGCONT))
			_, err = syscall.Wait4(p.Process.Pid, &status, 0, nil)
			require.NoError(t, err)
			assert.Equal(t, passes, status.ExitStatus())
		})
	}
}
