// Command coredns is CoreDNS with the plugins a test cluster needs and no others: the full set would compile
// the SDKs of three clouds.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/hosts"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() {
	// The order in which a query passes the plugins, whatever the Corefile's: as CoreDNS itself has it.
	dnsserver.Directives = []string{
		"bind", "health", "ready", "errors", "log", "cache", "hosts", "kubernetes", "forward",
	}
	coremain.Run()
}
