// The parser of image references that containerd, Docker and the kubelet use, as an oracle for ours.
module runyard/testbed/references

go 1.26.0

require (
	github.com/distribution/reference v0.6.0
	github.com/opencontainers/go-digest v1.0.0
)
