// SPDX-License-Identifier: Apache-2.0

package program

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"strconv"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	formatText = "text"
	formatJSON = "json"
	// mostVerbose is one more than what client-go has use for.
	mostVerbose = 10
)

// Logging is how a program logs.
type Logging struct {
	format string
	// Verbosity is from 0 to Most.
	Verbosity int
	// Most is the highest verbosity; 0 is 10.
	Most int
}

// AddFlags adds the flags for logging.
func (o *Logging) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.format, "log-format", formatText, "How log lines are written: text, as the scheduler does, or json.")
	fs.IntVarP(&o.Verbosity, "v", "v", o.Verbosity,
		fmt.Sprintf("How much is logged, 0 to %d: ", cmp.Or(o.Most, mostVerbose))+"0 what an operator acts on, 2 every decision, 4 and more the nodes that were evaluated. (default 0)")
}

// Apply makes one logger of klog's, which client-go uses, and of controller-runtime's.
func (o *Logging) Apply(out io.Writer) error {
	logger, err := o.Logger(out)
	if err != nil {
		return err
	}
	ctrl.SetLogger(logger)
	klog.SetLoggerWithOptions(logger, klog.ContextualLogger(true))
	// The calls of klog without a logger have a threshold of their own.
	var threshold klog.Level
	return threshold.Set(strconv.Itoa(o.Verbosity))
}

// Logger returns a logger that writes to out.
func (o *Logging) Logger(out io.Writer) (logr.Logger, error) {
	if most := cmp.Or(o.Most, mostVerbose); o.Verbosity < 0 || o.Verbosity > most {
		return logr.Logger{}, fmt.Errorf("-v is %d: it must be from 0 to %d", o.Verbosity, most)
	}
	switch o.format {
	case formatText, "":
		return textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(o.Verbosity), textlogger.Output(out))), nil
	case formatJSON:
		// logr's V(n) is slog's level -n.
		handler := slog.NewJSONHandler(out, &slog.HandlerOptions{Level: slog.Level(-o.Verbosity), ReplaceAttr: plainLevel})
		return logr.FromSlogHandler(handler), nil
	default:
		return logr.Logger{}, fmt.Errorf("--log-format is %q: it must be %s or %s", o.format, formatText, formatJSON)
	}
}

// plainLevel turns slog's names for our levels, such as DEBUG+2 for V(2), into info and error, which is what log
// collectors understand.
func plainLevel(groups []string, a slog.Attr) slog.Attr {
	level, ok := a.Value.Any().(slog.Level)
	if !ok || len(groups) > 0 || a.Key != slog.LevelKey {
		return a
	}
	if level >= slog.LevelError {
		return slog.String(slog.LevelKey, "error")
	}
	return slog.String(slog.LevelKey, "info")
}
