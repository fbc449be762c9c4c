// The CustomResourceDefinitions of the Gateway API; nothing is compiled.
module runyard/testbed/gateway

go 1.25.0

require sigs.k8s.io/gateway-api v1.4.1
