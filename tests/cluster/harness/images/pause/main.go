// A pod's sandbox, a placeholder, or (with --until-eof) the first process of a node: does nothing until it is told to
// end, or until its standard input ends, which it does when the test run is gone.
package main

import (
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCHLD)
	if len(os.Args) > 1 && os.Args[1] == "--until-eof" {
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
