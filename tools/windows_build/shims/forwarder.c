/* Test only: entry point of a DLL of forwarded exports (python3.dll). */
#include <windows.h>

BOOL WINAPI DllMain(HINSTANCE self, DWORD reason, LPVOID reserved)
{
    (void)self, (void)reason, (void)reserved;
    return TRUE;
}
