// Does nothing until it is told to end: a pod's sandbox, or a placeholder.
// With --for it ends after a time; with --until-eof, as the first process of a node, when its standard input ends, which
// it does when the test run is gone.
package main

import (
	"flag"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	duration := flag.Duration("for", 0, "end after this time")
	untilEOF := flag.Bool("until-eof", false, "end with the standard input")
	flag.Parse()
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCHLD)
	if *duration > 0 {
		time.AfterFunc(*duration, func() { os.Exit(0) })
	}
	if *untilEOF {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(0)
		}()
	}
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		reap()
	}
}

// reap ends the waiting of orphans that ended: the first process of a PID namespace is the parent of each.
func reap() {
	for {
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != nil || pid <= 0 {
			return
		}
	}
}
