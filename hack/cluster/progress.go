// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// quiet is how long something may take before it is worth a line.
const quiet = 2 * time.Second

// reportProgress prints what is being built, for how long, and how it ended; nothing if it is quick. A terminal
// gets one line that counts seconds, anything else a plain line every 20 s. left is how long it and all that follows
// probably take; 0 is unknown.
func reportProgress(out io.Writer, what string, left time.Duration) (done func(error)) {
	interval, format := 20*time.Second, "building %s: %d s%s\n"
	if IsTerminal(out) {
		interval, format = time.Second, "\rbuilding %s: %d s%-32s"
	}
	start := time.Now()
	elapsed := func() int { return int(time.Since(start).Seconds()) }
	rest := func() string {
		if rest := left - time.Since(start); rest > 0 {
			return ", " + roughly(rest) + " left"
		}
		return ""
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	said := false
	wg.Go(func() {
		next := time.NewTimer(quiet)
		defer next.Stop()
		for {
			select {
			case <-stop:
				return
			case <-next.C:
				said = true
				fmt.Fprintf(out, format, what, elapsed(), rest())
				next.Reset(interval)
			}
		}
	})
	return func(err error) {
		close(stop)
		wg.Wait()
		if !said {
			return
		}
		if IsTerminal(out) {
			fmt.Fprintf(out, "\r%*s\r", len(what)+48, "")
		}
		if err == nil {
			fmt.Fprintf(out, "built %s in %d s\n", what, elapsed())
		}
	}
}

// IsTerminal reports whether a user reads what is written.
func IsTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb" && f.Name() != os.DevNull
}
