// Command device-plugin offers pretend GPUs to the kubelet, as NVIDIA's device plugin offers real ones: they are
// counted, scheduled and assigned, and a container finds the ids of its own in NVIDIA_VISIBLE_DEVICES. Behind them
// is no driver, no device file and no CUDA.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	resource = "nvidia.com/gpu"
	socket   = "pretend-gpus.sock"
	retry    = 100 * time.Millisecond
	patience = 10 * time.Second
)

func main() {
	count := flag.Int("gpus", 1, "how many GPUs to offer")
	node := flag.String("node", "", "name of the node; ids differ between nodes")
	flag.Parse()
	devices := make([]*api.Device, *count)
	for number := range devices {
		devices[number] = &api.Device{ID: makeID(*node, number), Health: api.Healthy}
	}
	// A kubelet forgets its device plugins when it ends, and removes their sockets when it starts.
	for told := ""; ; time.Sleep(retry) {
		if err := offer(devices); err.Error() != told {
			told = err.Error()
			log.Print(told)
		}
	}
}

// makeID returns an id that looks like that of a GPU, the same after each start.
func makeID(node string, number int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", node, number))
	return fmt.Sprintf("GPU-%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// offer registers the devices with the kubelet that runs now, and returns when it has ended, or has not taken them.
func offer(devices []*api.Device) error {
	// One that accepts connections has already emptied the folder, and will not remove the socket made next.
	probe, err := net.Dial("unix", api.KubeletSocket)
	if err != nil {
		return err
	}
	probe.Close()
	if err := os.Remove(api.DevicePluginPath + socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", api.DevicePluginPath+socket)
	if err != nil {
		return err
	}
	served := &plugin{devices: devices, begun: make(chan struct{}, 1), ended: make(chan struct{}, 1)}
	server := grpc.NewServer()
	defer server.Stop()
	api.RegisterDevicePluginServer(server, served)
	go server.Serve(listener)

	if err := register(); err != nil {
		return err
	}
	select {
	case <-served.begun:
	case <-time.After(patience):
		return fmt.Errorf("the kubelet accepted the registration and did not ask for the devices within %s", patience)
	}
	log.Printf("offered %d of %s", len(devices), resource)
	<-served.ended
	return errors.New("the kubelet has hung up")
}

func register() error {
	connection, err := grpc.NewClient("unix://"+api.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	request := &api.RegisterRequest{Version: api.Version, Endpoint: socket, ResourceName: resource}
	_, err = api.NewRegistrationClient(connection).Register(ctx, request)
	return err
}

// plugin answers one kubelet.
type plugin struct {
	api.UnimplementedDevicePluginServer
	devices      []*api.Device
	begun, ended chan struct{}
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

// ListAndWatch sends the devices, which never change, and lasts as long as the kubelet.
func (p *plugin) ListAndWatch(_ *api.Empty, stream grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	if err := stream.Send(&api.ListAndWatchResponse{Devices: p.devices}); err != nil {
		return err
	}
	p.begun <- struct{}{}
	<-stream.Context().Done()
	p.ended <- struct{}{}
	return nil
}

// Allocate gives each container the variable with which NVIDIA's plugin names its devices to the container runtime.
func (p *plugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	response := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		ids := strings.Join(container.DevicesIds, ",")
		response.ContainerResponses = append(response.ContainerResponses, &api.ContainerAllocateResponse{
			Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": ids},
		})
	}
	return response, nil
}
