// Command pause holds a pod's namespaces open: it waits for a signal to end and reaps the orphans of the pod.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	children, end := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	for {
		select {
		case <-children:
			reap()
		case <-end:
			return
		}
	}
}

// reap collects every child that has ended: signals coalesce, so one SIGCHLD may stand for many.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if pid <= 0 || err != nil {
			return
		}
	}
}
